"""HTTP to strangers: transport, address guard and signatures."""
