"""Tools around a menu: graph, diagram, simulator and scripts."""
