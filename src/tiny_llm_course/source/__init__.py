"""Code as text: what it defines, stubs made of it, versions of it merged."""
