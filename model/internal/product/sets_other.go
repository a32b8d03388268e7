//go:build (!amd64 && !arm64) || purego

package product

// sets are the implementations that this machine supports.
func sets() []set { return []set{portable} }
