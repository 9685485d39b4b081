"""Settlement: claims, provider calls, callbacks, outcomes and reviews of payments."""
