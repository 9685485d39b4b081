"""Processing: claims, provider calls, callbacks, outcomes and reviews of payments."""
