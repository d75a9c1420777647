# SPDX-License-Identifier: Apache-2.0
"""Iterators for frameworks."""
