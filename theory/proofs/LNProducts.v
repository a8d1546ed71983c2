(* Products of LayerNorm Jacobians: equality in Lemma A.2(iv), and Corollary A.3. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix mxalgebra zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base Geometry LayerNorm LNLip.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Transpose.
Variable R : rcfType.

(* A spectral bound holds for the transpose, too. *)
Lemma opnorm_le_tr m n (M : 'M[R]_(m, n)) c :
  opnorm_le (@norm2 R n) (@norm2 R m) (app M) c -> opnorm_le (@norm2 R m) (@norm2 R n) (app M^T) c.
Proof.
move=> [c0 H]; split=> // y; have [->|y0] := eqVneq (app M^T y) 0.
  by rewrite norm2_0 mulr_ge0 ?norm2_ge0.
rewrite -(ler_pmul2r (norm2_gt0 y0)) -expr2 norm2_sqr dot_app trmxK.
by apply: le_trans (cauchy2 _ _) _; rewrite (mulrC c) -mulrA ler_wpmul2l ?norm2_ge0.
Qed.

(* The transposed product of backpropagation: earlier layers on the left. *)
Fixpoint mxprod_tr m (J : nat -> 'M[R]_m) n : 'M[R]_m :=
  if n is k.+1 then mxprod_tr J k *m (J k)^T else 1%:M.

Lemma trmx_mxprod m (J : nat -> 'M[R]_m) n : (mxprod J n)^T = mxprod_tr J n.
Proof. by elim: n => [|n IH] /=; [exact: trmx1 | rewrite trmx_mul IH]. Qed.

End Transpose.

(* F_{n-1} o ... o F_0, and F_0 o ... o F_{n-1}. *)
Fixpoint fcomp T (F : nat -> T -> T) n x := if n is k.+1 then F k (fcomp F k x) else x.
Fixpoint fcomp_rev T (F : nat -> T -> T) n x := if n is k.+1 then fcomp_rev F k (F k x) else x.

Section Rowwise.
Variables (R : rcfType) (m d : nat).
Let V := [lmodType R of 'M[R]_(m, d)].
Implicit Types (J : 'I_m -> 'M[R]_d) (X Y : V).

(* The block-diagonal operator with the block J i at token i. *)
Definition rowwise J (X : V) : V := \matrix_i app (J i) (row i X).

(* The inner product of states. *)
Definition inner X Y : R := \sum_i dot (row i X) (row i Y).

Lemma row_rowwise J X i : row i (rowwise J X) = app (J i) (row i X).
Proof. by rewrite rowK. Qed.

(* Its adjoint has the transposed blocks. *)
Lemma rowwise_adjoint J X Y : inner (rowwise J X) Y = inner X (rowwise (fun i => (J i)^T) Y).
Proof. by apply: eq_bigr => i _; rewrite !row_rowwise dot_app. Qed.

Lemma row_fcomp (J : nat -> 'I_m -> 'M[R]_d) n X i :
  row i (fcomp (fun k => rowwise (J k)) n X) = app (mxprod (fun k => J k i) n) (row i X).
Proof.
by elim: n => [|n IH] /=; [rewrite app1 | rewrite row_rowwise IH app_mul].
Qed.

Lemma row_fcomp_rev (J : nat -> 'I_m -> 'M[R]_d) n X i :
  row i (fcomp_rev (fun k => rowwise (fun i => (J k i)^T)) n X) =
  app (mxprod (fun k => J k i) n)^T (row i X).
Proof.
rewrite trmx_mxprod; elim: n X => [|n IH] X /=; first by rewrite app1.
by rewrite IH row_rowwise app_mul.
Qed.

Lemma frob_norm2 X : frob X = Num.sqrt (\sum_i norm2 (row i X) ^+ 2).
Proof.
rewrite -[LHS]ger0_norm ?frob_ge0 // -sqrtr_sqr frob_sqr.
by congr Num.sqrt; apply: eq_bigr => i _; rewrite norm2_sqr.
Qed.

(* The three norms of a block-diagonal operator have the same bounds: those of all blocks. *)
Lemma tokenwise_frob (F : V -> V) (G : 'I_m -> 'rV[R]_d -> 'rV[R]_d) c :
  (forall X i, row i (F X) = G i (row i X)) -> 0 <= c ->
  (forall i v, norm2 (G i v) <= c * norm2 v) -> opnorm_le (@frob R m d) (@frob R m d) F c.
Proof.
move=> FG c0 H; split=> // X; rewrite !frob_norm2 -[c]ger0_norm // -sqrtr_sqr -sqrtrM ?sqr_ge0 //.
apply: ler_wsqrtr; rewrite mulr_sumr; apply: ler_sum => i _.
by rewrite FG -exprMn ler_sqr ?nnegrE ?mulr_ge0 ?norm2_ge0.
Qed.

Lemma one_row (i : 'I_m) (v : 'rV[R]_d) (X := (\matrix_j (if j == i then v else 0)) : V) :
  [/\ row i X = v, forall j, j != i -> row j X = 0, frob X = norm2 v & ninf2 X = norm2 v].
Proof.
have ri : row i X = v by rewrite rowK eqxx.
have rj j : j != i -> row j X = 0 by move=> /negbTE ji; rewrite rowK ji.
split=> //.
  rewrite frob_norm2 (bigD1 i) //= ri big1 => [|j /rj ->]; last by rewrite norm2_0 expr0n.
  by rewrite addr0 sqrtr_sqr ger0_norm ?norm2_ge0.
apply/eqP; rewrite eq_le -{2}ri norm2_row_le andbT.
apply: ninf2_le => [|j]; first exact: norm2_ge0.
by have [->|/rj ->] := eqVneq j i; rewrite ?ri // norm2_0 norm2_ge0.
Qed.

Theorem rowwise_norms J c :
  [/\ opnorm_le (@frob R m d) (@frob R m d) (rowwise J) c <->
        0 <= c /\ forall i v, norm2 (app (J i) v) <= c * norm2 v &
      opnorm_le (@ninf2 R m d) (@ninf2 R m d) (rowwise J) c <->
        0 <= c /\ forall i v, norm2 (app (J i) v) <= c * norm2 v].
Proof.
split; split=> -[c0 H].
- split=> // i v; have [ri rj fv _] := one_row i v.
  have := H (\matrix_j (if j == i then v else 0)); rewrite fv; apply: le_trans.
  by rewrite -{1}ri -row_rowwise; apply: le_trans (norm2_row_le _ i) (ninf2_le_frob _).
- exact: (tokenwise_frob (G := fun i => app (J i)) (row_rowwise J)).
- split=> // i v; have [ri _ _ nv] := one_row i v.
  have := H (\matrix_j (if j == i then v else 0)); rewrite nv; apply: le_trans.
  by rewrite -{1}ri -row_rowwise norm2_row_le.
- split=> // X; apply: ninf2_le => [|i]; first by rewrite mulr_ge0 ?ninf2_ge0.
  rewrite row_rowwise; apply: le_trans (H i _) _.
  by rewrite ler_wpmul2l ?norm2_row_le.
Qed.

(* Hence the spectral norm and the one induced by block-infinity/RMS are the same number. *)
Corollary rowwise_opnorm J c :
  is_opnorm (@frob R m d) (@frob R m d) (rowwise J) c <->
  is_opnorm (@ninf2 R m d) (@ninf2 R m d) (rowwise J) c.
Proof.
split=> -[h hmin]; split=> [|c' h'].
- by have [f g] := rowwise_norms J c; apply/g; apply/f.
- by apply: hmin; have [f g] := rowwise_norms J c'; apply/f; apply/g.
- by have [f g] := rowwise_norms J c; apply/f; apply/g.
- by apply: hmin; have [f g] := rowwise_norms J c'; apply/g; apply/f.
Qed.

(* ... namely the largest norm of a block. *)
Corollary rowwise_opnorm_max J (c : 'I_m -> R) :
  (forall i, is_opnorm (@norm2 R d) (@norm2 R d) (app (J i)) (c i)) ->
  is_opnorm (@frob R m d) (@frob R m d) (rowwise J) (\big[Num.max/0]_i c i).
Proof.
move=> Jc; split=> [|c' /(rowwise_norms J c').1 [c'0 H]].
  apply/(rowwise_norms J _).1; split=> [|i v]; first exact: bigmax0_ge0.
  have [[_ h] _] := Jc i; apply: le_trans (h v) _.
  by rewrite ler_wpmul2r ?norm2_ge0 // bigmax0_ge.
by apply: bigmax0_le => // i; have [_ hmin] := Jc i; apply: hmin.
Qed.

Lemma max_prod_le (a : nat -> 'I_m -> R) n : (forall k i, 0 <= a k i) ->
  \big[Num.max/0]_i \prod_(k < n) a k i <= \prod_(k < n) \big[Num.max/0]_i a k i.
Proof.
move=> a0; apply: bigmax0_le => [|i]; first by apply: prodr_ge0 => k _; exact: bigmax0_ge0.
by apply: ler_prod => k _; rewrite a0 (bigmax0_ge (a k)).
Qed.

End Rowwise.

(* Corollary A.3. *)
Section Sequence.
Variables (R : rcfType) (m d' : nat).
Let d := d'.+1.
Variables (gamma : nat -> 'rV[R]_d) (eps : nat -> R) (Y : nat -> 'M[R]_(m, d)).
Hypotheses (e0 : forall k, 0 <= eps k) (s0 : forall k i, 0 < sigma (eps k) (row i (Y k))).

Let J k i := ln_jac (gamma k) (eps k) (row i (Y k)).

(* The sequence-level Jacobian of layer k, the product, and the transposed product. *)
Definition seq_ln_jac k := rowwise (J k).
Definition seq_ln_jac_tr k := rowwise (fun i => (J k i)^T).
Definition seq_product n := fcomp seq_ln_jac n.
Definition seq_product_tr n := fcomp_rev seq_ln_jac_tr n.

Definition token_factor k i : R := ninf (gamma k) / sigma (eps k) (row i (Y k)).

Lemma token_factor_ge0 k i : 0 <= token_factor k i.
Proof. by rewrite divr_ge0 ?ninf_ge0 ?ltW. Qed.

Lemma token_product_le n i :
  opnorm_le (@norm2 R d) (@norm2 R d) (app (mxprod (fun k => J k i) n))
    (\prod_(k < n) token_factor k i).
Proof. by apply: (mxprod_le (a := fun k => token_factor k i)) => k _; apply: ln_jac_le. Qed.

(* The transposed product is the adjoint of the product. *)
Theorem seq_product_adjoint n X Z : inner (seq_product n X) Z = inner X (seq_product_tr n Z).
Proof.
apply: eq_bigr => i _; rewrite /seq_product /seq_product_tr /seq_ln_jac /seq_ln_jac_tr.
by rewrite row_fcomp row_fcomp_rev dot_app.
Qed.

Theorem seq_product_le n :
  [/\ opnorm_le (@frob R m d) (@frob R m d) (seq_product n)
        (\big[Num.max/0]_i \prod_(k < n) token_factor k i),
      opnorm_le (@frob R m d) (@frob R m d) (seq_product_tr n)
        (\big[Num.max/0]_i \prod_(k < n) token_factor k i) &
      \big[Num.max/0]_i \prod_(k < n) token_factor k i <=
        \prod_(k < n) \big[Num.max/0]_i token_factor k i].
Proof.
split; last exact: max_prod_le token_factor_ge0.
- apply: (tokenwise_frob (G := fun i => app (mxprod (fun k => J k i) n))) => [X i||i v].
  + exact: row_fcomp.
  + exact: bigmax0_ge0.
  + have [_ H] := token_product_le n i; apply: le_trans (H v) _.
    rewrite ler_wpmul2r ?norm2_ge0 //.
    exact: (bigmax0_ge (fun i => \prod_(k < n) token_factor k i)).
- apply: (tokenwise_frob (G := fun i => app (mxprod (fun k => J k i) n)^T)) => [X i||i v].
  + exact: row_fcomp_rev.
  + exact: bigmax0_ge0.
  + have [_ H] := opnorm_le_tr (token_product_le n i); apply: le_trans (H v) _.
    rewrite ler_wpmul2r ?norm2_ge0 //.
    exact: (bigmax0_ge (fun i => \prod_(k < n) token_factor k i)).
Qed.

Theorem seq_product_geometric n eta : 0 < eta -> eta < 1 ->
  (forall k, (k < n)%N -> \big[Num.max/0]_i token_factor k i <= 1 - eta) ->
  opnorm_le (@frob R m d) (@frob R m d) (seq_product n) ((1 - eta) ^+ n) /\
  opnorm_le (@frob R m d) (@frob R m d) (seq_product_tr n) ((1 - eta) ^+ n).
Proof.
move=> _ eta1 H; have [[_ h1] [_ h2] h3] := seq_product_le n.
have eta0 : 0 <= 1 - eta by rewrite subr_ge0 ltW.
have le : \big[Num.max/0]_i \prod_(k < n) token_factor k i <= (1 - eta) ^+ n.
  apply: le_trans h3 _; apply: (prod_geometric (a := fun k => \big[Num.max/0]_i token_factor k i)).
  by move=> k kn; rewrite bigmax0_ge0 H.
split; split=> [|X]; rewrite ?exprn_ge0 //.
  by apply: le_trans (h1 X) _; rewrite ler_wpmul2r ?frob_ge0.
by apply: le_trans (h2 X) _; rewrite ler_wpmul2r ?frob_ge0.
Qed.

End Sequence.

(* Equality in Lemma A.2(iv). *)
Section Equality.
Variables (R : rcfType) (d' : nat).
Let d := d'.+1.
Variables (c eps : nat -> R) (y : nat -> 'rV[R]_d).
Hypotheses (e0 : forall k, 0 <= eps k) (s0 : forall k, 0 < sigma (eps k) (y k)).

Let gamma k := c k *: ones d : 'rV[R]_d.

(* u sees none of the directions that the modules shrink. *)
Definition unseen n (u : 'rV[R]_d) := u != 0 /\ dot (ones d) u = 0 /\
  forall k, (k < n)%N -> dot (xhat (eps k) (y k)) u = 0.

Lemma ninf_scaled a : ninf (a *: ones d : 'rV[R]_d) = `|a|.
Proof.
rewrite ninfZ (_ : ninf (ones d) = 1) ?mulr1 //.
apply/eqP; rewrite eq_le; apply/andP; split.
  by apply: ninf_le => [|i]; rewrite ?ler01 ?rv1 ?normr1.
by rewrite -[leLHS]normr1 -(rv1 R (0 : 'I_d)) ninf_ge.
Qed.

Lemma ln_chain_unseen n u : unseen n u ->
  app (ln_chain gamma eps y n) u = (\prod_(k < n) (c k / sigma (eps k) (y k))) *: u.
Proof.
move=> [_ [u1 ux]]; elim: n ux => [|n IH] ux.
  by rewrite /ln_chain /= app1 big_ord0 scale1r.
have IHn := IH (fun k kn => ux k (ltnW kn)); rewrite /ln_chain /= in IHn *.
rewrite app_mul IHn appZ app_ln_jac app_deflated (ux n (leqnn _)) mul0r scale0r subr0.
rewrite (centre_id u1) big_ord_recr /= -scalerA; congr (_ *: _).
by apply/rowP => i; rewrite /gamma !rvZ mxE rvZ rv1 mulr1 mulrA (mulrC (sigma _ _)^-1).
Qed.

Theorem ln_product_equality n u : unseen n u ->
  is_opnorm (@norm2 R d) (@norm2 R d) (app (ln_chain gamma eps y n))
    (\prod_(k < n) (`|c k| / sigma (eps k) (y k))).
Proof.
move=> un; have fE k : ln_factor gamma eps y k = `|c k| / sigma (eps k) (y k).
  by rewrite /ln_factor /gamma ninf_scaled.
have le : opnorm_le (@norm2 R d) (@norm2 R d) (app (ln_chain gamma eps y n))
    (\prod_(k < n) (`|c k| / sigma (eps k) (y k))).
  split=> [|v]; first by apply: prodr_ge0 => k _; rewrite divr_ge0 // ltW.
  apply: le_trans (ln_product_le gamma e0 s0 n v) _.
  by under eq_bigr do rewrite fE.
have [u0 _] := un; apply: (is_opnorm_attained (x := u) le); first exact: norm2_gt0.
rewrite (ln_chain_unseen un) norm2Z normr_prod; congr (_ * _); apply: eq_bigr => k _.
by rewrite normrM normrV ?unitfE ?gt_eqF // (gtr0_norm (s0 k)).
Qed.

(* At depth n <= d - 2 there always is such a u. *)
Theorem unseen_exists n : (n.+2 <= d)%N -> exists u, unseen n u.
Proof.
move=> nd; pose A : 'M[R]_(n.+1, d) :=
  \matrix_k (if (k : nat) is j.+1 then xhat (eps j) (y j) else ones d).
have : kermx A^T != 0.
  rewrite kermx_eq0 /row_free mxrank_tr; apply: contraTneq nd => Ad.
  by rewrite -ltnNge ltnS -{1}Ad rank_leq_row.
case/rowV0Pn => u /sub_kermxP uA u0.
have Ak k : dot (row k A) u = 0.
  have /rowP/(_ k) := uA; rewrite !mxE => <-; apply: eq_bigr => i _.
  by rewrite !mxE mulrC.
exists u; split=> //; split=> [|k kn]; first by have := Ak ord0; rewrite rowK.
by have := Ak (Ordinal (kn : (k.+1 < n.+1)%N)); rewrite rowK.
Qed.

Corollary ln_product_equality_depth n : (n.+2 <= d)%N ->
  is_opnorm (@norm2 R d) (@norm2 R d) (app (ln_chain gamma eps y n))
    (\prod_(k < n) (`|c k| / sigma (eps k) (y k))).
Proof. by move=> nd; have [u /ln_product_equality] := unseen_exists nd. Qed.

End Equality.
