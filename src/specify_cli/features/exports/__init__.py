"""A record in the forms that programs of others read: OpenTelemetry, Perfetto, Agent Trace.  [pure]"""
