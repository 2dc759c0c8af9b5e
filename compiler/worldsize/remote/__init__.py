"""A workspace in Azure: jobs are submitted to it and read from it.

Reading needs azure-core and azure-identity only. azure-ai-ml, which takes seconds to import, is for what
uploads: jobs, schedules and clusters.
"""
