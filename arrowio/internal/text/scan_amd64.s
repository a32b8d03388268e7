//go:build !purego

#include "textflag.h"

// func blocks(p *byte, n int, t *[tableSize]byte) uint64
TEXT ·blocks(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ t+16(FP), DX
	VBROADCASTI128 0(DX), Y9   // errors by the high half of the first byte
	VBROADCASTI128 16(DX), Y10 // by its low half
	VBROADCASTI128 32(DX), Y11 // by the high half of the second byte
	MOVL $0x0f, AX
	MOVQ AX, X12
	VPBROADCASTB X12, Y12
	MOVL $0x60, AX             // 0xe0 - 0x80
	MOVQ AX, X13
	VPBROADCASTB X13, Y13
	MOVL $0x70, AX             // 0xf0 - 0x80
	MOVQ AX, X14
	VPBROADCASTB X14, Y14
	MOVL $0x80, AX
	MOVQ AX, X15
	VPBROADCASTB X15, Y15
	VPXOR Y1, Y1, Y1           // the block before
	VPXOR Y7, Y7, Y7           // all blocks, or'ed
	VPXOR Y8, Y8, Y8           // errors

loop:
	VMOVDQU (SI), Y0
	VPOR Y0, Y7, Y7
	VPMOVMSKB Y0, AX
	TESTL AX, AX
	JNZ general
	VPSUBUSB 48(DX), Y1, Y2    // a character of the block before that is cut
	VPOR Y2, Y8, Y8
	JMP next

general:
	VPERM2I128 $0x21, Y0, Y1, Y2
	VPALIGNR $15, Y2, Y0, Y3   // each byte's first byte before it
	VPALIGNR $14, Y2, Y0, Y4   // second
	VPALIGNR $13, Y2, Y0, Y5   // third
	VPSRLW $4, Y3, Y6
	VPAND Y12, Y6, Y6
	VPSHUFB Y6, Y9, Y6
	VPAND Y12, Y3, Y3
	VPSHUFB Y3, Y10, Y3
	VPAND Y3, Y6, Y6
	VPSRLW $4, Y0, Y3
	VPAND Y12, Y3, Y3
	VPSHUFB Y3, Y11, Y3
	VPAND Y3, Y6, Y6           // errors of pairs
	VPSUBUSB Y13, Y4, Y4       // high bit: the second byte before begins three bytes or more
	VPSUBUSB Y14, Y5, Y5       // the third begins four
	VPOR Y4, Y5, Y5
	VPAND Y15, Y5, Y5
	VPXOR Y6, Y5, Y5           // two continuations exactly where one of them does
	VPOR Y5, Y8, Y8

next:
	VMOVDQA Y0, Y1
	ADDQ $32, SI
	SUBQ $32, CX
	JNZ loop

	XORQ R8, R8
	VPTEST Y8, Y8
	SETNE R8
	VPMOVMSKB Y7, AX
	XORQ R9, R9
	TESTL AX, AX
	SETNE R9
	ADDQ R9, R9
	ORQ R9, R8
	MOVQ R8, ret+24(FP)
	VZEROUPPER
	RET
