"""Tokens and the metadata of clouds, as Microsoft Entra ID and a managed identity answer them."""
