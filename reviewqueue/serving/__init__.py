"""How `web` shares its threads: a request gets one when its body has arrived, and a fair share of them."""
