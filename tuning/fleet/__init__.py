"""Measuring on other machines: a scheduler that knows them, workers that race candidates, and who sends them there."""
