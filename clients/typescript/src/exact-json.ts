import { LosslessNumber, isInteger, parse, stringify } from "lossless-json";

/** A number with a fraction or an exponent, kept digit for digit. `Number(value)` and `value.toString()` read it. */
export { LosslessNumber as ExactNumber };

/** Safe integers are numbers, larger ones `bigint`, and all others `ExactNumber`. */
export function loads(text: string): unknown {
  return parse(text, undefined, (digits) => {
    if (!isInteger(digits)) return new LosslessNumber(digits);
    const value = Number(digits);
    return Number.isSafeInteger(value) ? value : BigInt(digits);
  });
}

/** Write JSON; `bigint` and `ExactNumber` with all their digits. NaN and infinity are refused. */
export function dumps(value: unknown): string {
  const text = stringify(value, (_name, part: unknown) => {
    if (typeof part === "number" && !Number.isFinite(part)) throw new RangeError(`${part} is not a JSON number`);
    return part;
  });
  if (text === undefined) throw new TypeError("undefined is not a JSON value; use null");
  return text;
}
