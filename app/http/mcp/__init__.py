"""The door for agents: tools of the Model Context Protocol. Imported where it is opened alone."""
