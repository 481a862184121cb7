"""Model providers: the only place that knows the openai library."""
