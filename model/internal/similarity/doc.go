// Package similarity learns the similarities of rows that LEnewS and related methods embed.
package similarity
