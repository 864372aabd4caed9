"""Real models' recorded proposals, played by every policy: what does a search add to what a model does by itself?"""
