//go:build !amd64 || purego

package text

// scanBlocks scans nothing.
func scanBlocks([]byte) (valid, ascii bool, n int) { return true, true, 0 }
