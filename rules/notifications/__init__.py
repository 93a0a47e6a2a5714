"""Who is told what, and when: alerts become incidents, incidents become notices. Pure; `now` comes from outside."""
