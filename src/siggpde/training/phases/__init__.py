"""The phases of the schedules."""
