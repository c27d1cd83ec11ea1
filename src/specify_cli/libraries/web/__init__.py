"""What the collector and the viewer share: a server for one socket, and how recorded text becomes HTML."""
