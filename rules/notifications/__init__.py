"""What each sink is notified of, and when: alerts are grouped into incidents, incidents become notifications.

Pure: the caller passes the clock as `now`.
"""
