//! A CRI v1 container runtime as a source of pod status
