"""Programs for those who publish Outrider."""
