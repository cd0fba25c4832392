"""What tests in a browser share."""

__all__ = ["WATCH"]

WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => violations.push(event.violatedDirective));
"""
"""Gathers what the page's policy refused."""
