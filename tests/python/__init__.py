# SPDX-License-Identifier: Apache-2.0
# A package, so that its conftest.py is another module than the one of the folder above, which tests
# there import by name.
