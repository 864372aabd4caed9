"""Anomaly detection: is something off in a running conversation, and how can one tell?"""
