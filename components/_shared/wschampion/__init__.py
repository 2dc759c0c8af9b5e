"""The champion of a registered model: the version in use, which tags of the registry say."""
