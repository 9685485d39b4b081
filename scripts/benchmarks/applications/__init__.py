"""The applications that are measured: ours and a bare one."""
