"""What rules of several families ask about a step."""
