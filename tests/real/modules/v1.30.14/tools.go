//go:build tools

// Package real names the commands that the older clients are built from.
package real

import (
	_ "k8s.io/kubernetes/cmd/kubectl"
)
