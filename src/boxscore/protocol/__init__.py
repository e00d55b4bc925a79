"""All that decides a number: the rules of a protocol, the table of protocols, the words of the rules."""
