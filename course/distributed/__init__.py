"""Several processes that train one model: starting them, what they send each other, what that costs."""
