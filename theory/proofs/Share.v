(* How much attention one key must draw for the spectral norm of a row-stochastic matrix to grow
   like the root of its number of rows. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base Geometry LNProducts Transfer.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Frobenius.
Variable R : rcfType.

Lemma frob_tr m n (X : 'M[R]_(m, n)) : frob X^T = frob X.
Proof.
rewrite /frob exchange_big; congr Num.sqrt; apply: eq_bigr => i _; apply: eq_bigr => j _.
by rewrite mxE.
Qed.

Lemma row_mul_tr m n d (A : 'M[R]_(m, n)) (X : 'M[R]_(n, d)) k :
  row k (A *m X)^T = app A (row k X^T).
Proof. by rewrite trmx_mul row_mul. Qed.

(* A on the columns of a state: its norm from Frobenius to Frobenius is its spectral norm. *)
Theorem spectral_on_states m n d (A : 'M[R]_(m, n)) c :
  is_opnorm (@norm2 R n) (@norm2 R m) (app A) c <->
  is_opnorm (@frob R n d.+1) (@frob R m d.+1) (fun X => A *m X) c.
Proof.
have le b : opnorm_le (@norm2 R n) (@norm2 R m) (app A) b <->
    opnorm_le (@frob R n d.+1) (@frob R m d.+1) (fun X => A *m X) b.
  split=> -[b0 H].
    split=> // X; rewrite -(frob_tr X) -(frob_tr (_ *m _)).
    rewrite -ler_sqr ?nnegrE ?mulr_ge0 ?frob_ge0 // exprMn !frob_rows mulr_sumr.
    by apply: ler_sum => k _; rewrite row_mul_tr -exprMn ler_sqr ?nnegrE ?mulr_ge0 ?norm2_ge0.
  split=> // x; pose X : 'M[R]_(d.+1, n) := \matrix_k (if k == ord0 then x else 0).
  have [r0 _ fX _] := one_row (ord0 : 'I_d.+1) x.
  have := H X^T; rewrite (frob_tr X) fX; apply: le_trans; rewrite -(frob_tr (_ *m _)).
  apply: le_trans (ninf2_le_frob _); apply: le_trans (norm2_row_le _ ord0).
  by rewrite row_mul_tr trmxK r0.
by split=> -[h hmin]; split; [apply/le | move=> b /le; apply: hmin | apply/le |
  move=> b /le; apply: hmin].
Qed.

Variables (m n : nat) (A : 'M[R]_(m.+1, n)).
Hypothesis sA : row_stochastic A.

(* The largest mean weight that a key receives. *)
Definition share : R := \big[Num.max/0]_j ((\sum_i A i j) / m.+1%:R).

Lemma shareE : share * m.+1%:R = max_column A.
Proof. by rewrite /share bigmax0_mulr ?invr_ge0 ?ler0n // divfK // pnatr_eq0. Qed.

Lemma share_ge0 : 0 <= share. Proof. exact: bigmax0_ge0. Qed.

Lemma key_column : exists j, share = (\sum_i A i j) / m.+1%:R.
Proof.
have n0 := simplex_gt0 (sA ord0); pose F j := (\sum_i A i j) / m.+1%:R.
have [j Fj] : exists j, F j = \big[Num.max/0]_j F j.
  apply: (bigmax0_attained (i0 := Ordinal n0)).
  rewrite divr_ge0 ?ler0n // sumr_ge0 // => i _.
  by have [/(_ (Ordinal n0))] := sA i; rewrite mxE.
by exists j.
Qed.

Variable c : R.
Hypothesis hc : is_opnorm (@norm2 R n) (@norm2 R m.+1) (app A) c.

Let L : R := m.+1%:R.
Let L0 : 0 < L. Proof. by rewrite ltr0n. Qed.

Theorem share_lower : share * Num.sqrt L <= c.
Proof.
have [j wE] := key_column; have [[c0 H] _] := hc.
pose e : 'rV[R]_n := delta_mx 0 j; pose a := app A e.
have aE i : a 0 i = A i j.
  rewrite appE (bigD1 j) //= mxE !eqxx mulr1 big1 ?addr0 // => k /negbTE kj.
  by rewrite mxE kj andbF mulr0.
have ee : norm2 e = 1.
  rewrite /norm2 (_ : dot e e = 1) ?sqrtr1 // /dot (bigD1 j) //= mxE !eqxx mulr1.
  by rewrite big1 ?addr0 // => k /negbTE kj; rewrite mxE kj andbF mul0r.
have := H e; rewrite ee mulr1; apply: le_trans.
have s0 : 0 <= Num.sqrt L by exact: sqrtr_ge0.
rewrite -ler_sqr ?nnegrE ?mulr_ge0 ?share_ge0 ?norm2_ge0 // norm2_sqr -/a.
rewrite exprMn (sqr_sqrtr (ltW L0)) -(ler_pmul2l L0); have := cauchy (ones m.+1) a.
have oo : dot (ones m.+1) (ones m.+1) = L.
  by rewrite dot_ones (eq_bigr (fun=> 1)) ?sum_const ?mulr1 // => i _; rewrite rv1.
rewrite oo dot_ones (eq_bigr _ (fun i _ => aE i)); apply: le_trans.
rewrite wE -/L; set s := \sum_i A i j; rewrite le_eqVlt; apply/orP; left; apply/eqP.
have L_neq0 : L != 0 by rewrite gt_eqF.
by move: L_neq0; move: L s => l s l0; field.
Qed.

Theorem share_upper : c <= Num.sqrt (share * L).
Proof.
have [_ least] := hc; apply: least; rewrite shareE.
split=> [|x]; first exact: sqrtr_ge0.
have := column_sum_bound sA (x^T : 'M[R]_(n, 1)).
have fE k (y : 'rV[R]_k) : frob (y^T) = norm2 y.
  by rewrite frob_tr /frob big_ord1 /norm2; congr Num.sqrt; apply: eq_bigr => j _; rewrite expr2.
by rewrite fE (_ : A *m x^T = (app A x)^T) ?fE // trmx_mul trmxK.
Qed.

End Frobenius.

(* Sinks attain both bounds. *)
Theorem sink_share (R : rcfType) m n (A : 'M[R]_(m.+1, n)) j : (forall i k, A i k = (k == j)%:R) ->
  [/\ row_stochastic A, share A = 1 &
      is_opnorm (@norm2 R n) (@norm2 R m.+1) (app A) (Num.sqrt m.+1%:R)].
Proof.
move=> Aj; have [sA cA nA] := sink_norm 0 Aj; split=> //; last exact/(spectral_on_states 0).
have m0 : m.+1%:R != 0 :> R by rewrite pnatr_eq0.
by apply: (mulIf m0); rewrite shareE cA mul1r.
Qed.

(* The bounds and what they mean for a factor s sqrt(L). *)
Theorem share_whole (R : rcfType) m n (A : 'M[R]_(m.+1, n)) c : row_stochastic A ->
  is_opnorm (@norm2 R n) (@norm2 R m.+1) (app A) c ->
  [/\ share A * Num.sqrt m.+1%:R <= c <= Num.sqrt (share A * m.+1%:R),
      forall d, is_opnorm (@frob R n d.+1) (@frob R m.+1 d.+1) (fun X => A *m X) c,
      forall s, 0 <= s -> s * Num.sqrt m.+1%:R <= c -> s ^+ 2 <= share A &
      forall s, s <= share A -> s * Num.sqrt m.+1%:R <= c].
Proof.
move=> sA hc; have lo := share_lower sA hc; have hi := share_upper sA hc; split.
- by rewrite lo hi.
- by move=> d; apply/spectral_on_states.
- move=> s s0 sc; have := le_trans sc hi; rewrite sqrtrM ?share_ge0 //.
  rewrite ler_pmul2r ?sqrt_natr_gt0 // => h.
  by rewrite -(sqr_sqrtr (share_ge0 A)) ler_sqr ?nnegrE ?sqrtr_ge0.
- by move=> s sw; apply: le_trans lo; rewrite ler_wpmul2r ?sqrtr_ge0.
Qed.
