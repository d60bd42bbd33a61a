"""Programs for torchrun, one a subject; each says at its top how to run it by hand."""
