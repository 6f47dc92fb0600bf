"""Hardware profiles and workbenches as Open Data Hub knows them: injection, choice of profiles, states, culling.

Pure functions of objects. Behaviour and messages are those measured on the originals (operator v3.5.0, dashboard
v3.5.0-odh, notebook controller); what the product does better is a layer above and listed as a difference.
"""
