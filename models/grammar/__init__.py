"""What texts may be held to: grammars of schemas and calls, tried out, compiled and followed."""
