"""Workers in other processes: ours by our own wire, and servers of others; what calls them."""
