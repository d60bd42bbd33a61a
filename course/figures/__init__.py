"""Pictures: a static one with a text alternative first, a widget on top where a front end is live."""
