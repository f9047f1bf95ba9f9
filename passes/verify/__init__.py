"""The rules of the IR between passes as code: one verifier for each form that a module has on its way."""
