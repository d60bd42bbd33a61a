"""From trained weights to answers: a trained network to ship, its variants, and what each costs and is worth.

Needs the `deploy` extra (onnx, onnxruntime, onnxscript, torchao) where a module says so; nothing of it is imported
before it is used.
"""
