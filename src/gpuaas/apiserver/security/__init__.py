"""Who asks, and may they? Certificates, tokens, authentication, impersonation, RBAC and the reviews that ask about it.

Everything here is free of HTTP: headers come as a mapping, a client certificate as bytes, requests as `Attributes`.
"""
