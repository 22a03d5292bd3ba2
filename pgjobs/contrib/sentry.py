"""Errors and check-ins for Sentry. Needs the package sentry-sdk."""

from ..features.exporters.sentry import PgJobsIntegration, install, uninstall

__all__ = ["PgJobsIntegration", "install", "uninstall"]
