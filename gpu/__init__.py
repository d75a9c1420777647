# SPDX-License-Identifier: Apache-2.0
"""What only a machine with an NVIDIA GPU can show; `gpu/check` runs it."""
