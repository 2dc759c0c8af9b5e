"""How clients reach the workspace: the listener, the proxy, certificates, and who may enter."""
