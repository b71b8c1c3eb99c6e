package main

import (
	"os"
	"path/filepath"
	"testing"
)

// What prodlocal starts without flags is in the checkout.
func TestDefaultConfig(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(filepath.Join("..", "..", defaultConfig)); err != nil {
		t.Error(err)
	}
}
