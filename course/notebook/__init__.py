"""What a cell calls: begin, check, hint, solution, pitfall, claim, progress.

Everything shown has a plain text form, an HTML form with the same content and, where tools read it,
a JSON form.
"""
