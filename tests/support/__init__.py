"""What the tests stand on: settings, databases, browser, rule table. No test data, no domain code."""
