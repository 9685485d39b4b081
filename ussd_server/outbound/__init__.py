"""HTTP to providers and clients' servers: transport, address guard and signatures."""
