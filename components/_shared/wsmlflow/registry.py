"""The versions of a model in MLflow's registry: a local database, or a workspace behind azureml-mlflow."""

from __future__ import annotations

from dataclasses import dataclass

import mlflow

from wschampion.champion import Version


@dataclass(frozen=True)
class MlflowRegistry:
    """What a champion needs of a registry, by MLflow's client."""

    client: mlflow.MlflowClient

    def versions(self, name: str) -> list[Version]:
        """Return all versions of a model, without those whose registration failed."""
        # A quote in a name is written between the other quotes.
        named, token = f'name = "{name}"' if "'" in name else f"name = '{name}'", None
        versions: list[Version] = []
        while True:
            page = self.client.search_model_versions(named, page_token=token)
            versions += [
                Version(str(version.version), version.tags, (version.creation_timestamp or 0) / 1000)
                for version in page
                if version.status != "FAILED_REGISTRATION"
            ]
            token = page.token
            if not token:
                return versions

    def set_tag(self, name: str, version: str, key: str, value: str) -> None:
        """Set a tag of a version."""
        self.client.set_model_version_tag(name, version, key, value)
