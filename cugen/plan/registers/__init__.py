"""An estimate of the registers that each thread of a kernel needs, from its nodes alone."""
